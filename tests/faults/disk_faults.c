/* A library to be preloaded into a node: calls to files of one folder fail, or take long, as the
 * lines of a control file say. The file is read anew at each call, so that a test can change it.
 *
 *   DISK_FAULTS        the control file
 *   DISK_FAULTS_UNDER  the folder
 *
 * A line: OPERATION NAME ERRNO DELAY_MS HOW. OPERATION is write, sync, read, create, rename or
 * unlink; a write that is synced (RWF_DSYNC) is both write and sync. NAME is part of the path, or
 * `.` for any. ERRNO 0: no error, the call is made. HOW, for writes: `no` nothing is written,
 * `half` half of it is, `all` all is written and the sync fails; for reads, the place of a byte:
 * those that do not want it are not hit. Each call that is hit adds a byte to the file CONTROL.hits.
 *
 * There is no asynchronous I/O (io_setup): all writes are among those above.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define PATH_BYTES 4096

struct fault {
    int number;
    long delay_ms;
    char how[8];
};

static int path_of(int fd, char *path)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_BYTES - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    return 1;
}

static void note_hit(const char *control)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s.hits", control);
    int fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0)
        return;
    syscall(SYS_write, fd, "x", 1L);
    syscall(SYS_close, fd);
}

/* Whether the call is to fail or to wait. A delay has been waited for on return. */
static int meets(const char *operation, const char *path, struct fault *fault)
{
    const char *control = getenv("DISK_FAULTS"), *under = getenv("DISK_FAULTS_UNDER");
    if (!control || !under || strncmp(path, under, strlen(under)) != 0)
        return 0;
    int fd = syscall(SYS_openat, AT_FDCWD, control, O_RDONLY, 0);
    if (fd < 0)
        return 0;
    char text[4096];
    ssize_t length = syscall(SYS_read, fd, text, sizeof text - 1);
    syscall(SYS_close, fd);
    text[length < 0 ? 0 : length] = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char asked[16], name[256];
        if (sscanf(line, "%15s %255s %d %ld %7s", asked, name, &fault->number, &fault->delay_ms,
                   fault->how) != 5)
            continue;
        if (strcmp(asked, operation) != 0 || (strcmp(name, ".") != 0 && !strstr(path, name)))
            continue;
        note_hit(control);
        struct timespec wait = {fault->delay_ms / 1000, fault->delay_ms % 1000 * 1000000L};
        if (fault->delay_ms)
            nanosleep(&wait, NULL);
        return 1;
    }
    return 0;
}

static int meets_fd(const char *operation, int fd, struct fault *fault)
{
    char path[PATH_BYTES];
    return path_of(fd, path) && meets(operation, path, fault);
}

static ssize_t failed(int number)
{
    errno = number;
    return -1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

long syscall(long number, ...)
{
    long given[6];
    va_list rest;
    va_start(rest, number);
    for (int i = 0; i < 6; i++)
        given[i] = va_arg(rest, long);
    va_end(rest);
    if (number == SYS_io_setup)
        return failed(ENOSYS);
    return REAL(syscall)(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}

ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t offset, int flags)
{
    struct fault fault;
    int hit = meets_fd("write", fd, &fault);
    if (!hit && (flags & RWF_DSYNC))
        hit = meets_fd("sync", fd, &fault);
    if (!hit || !fault.number)
        return REAL(pwritev64v2)(fd, parts, count, offset, flags);
    if (strcmp(fault.how, "all") == 0)
        REAL(pwritev64v2)(fd, parts, count, offset, 0);
    if (strcmp(fault.how, "half") == 0)
        for (int i = 0; i < (count + 1) / 2; i++) {
            size_t length = count == 1 ? parts[i].iov_len / 2 : parts[i].iov_len;
            if (fcntl(fd, F_GETFL) & O_DIRECT)
                length -= length % 4096;
            if (syscall(SYS_pwrite64, fd, parts[i].iov_base, length, offset) < 0)
                break;
            offset += length;
        }
    return failed(fault.number);
}

ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t offset, int flags)
{
    return pwritev64v2(fd, parts, count, offset, flags);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset)
{
    struct fault fault;
    if (meets_fd("write", fd, &fault) && fault.number)
        return failed(fault.number);
    return syscall(SYS_pwrite64, fd, bytes, length, offset);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
    return pwrite64(fd, bytes, length, offset);
}

/* Whether a read wants the byte at the place that the fault is at, if it is at one. */
static int wants(const struct fault *fault, size_t length, off64_t offset)
{
    off64_t place = atol(fault->how);
    return place == 0 || (offset <= place && place < offset + (off64_t)length);
}

ssize_t pread64(int fd, void *bytes, size_t length, off64_t offset)
{
    struct fault fault;
    if (meets_fd("read", fd, &fault) && fault.number && wants(&fault, length, offset))
        return failed(fault.number);
    return syscall(SYS_pread64, fd, bytes, length, offset);
}

ssize_t pread(int fd, void *bytes, size_t length, off_t offset)
{
    return pread64(fd, bytes, length, offset);
}

ssize_t preadv64v2(int fd, const struct iovec *parts, int count, off64_t offset, int flags)
{
    struct fault fault;
    size_t length = 0;
    for (int i = 0; i < count; i++)
        length += parts[i].iov_len;
    if (meets_fd("read", fd, &fault) && fault.number && wants(&fault, length, offset))
        return failed(fault.number);
    return REAL(preadv64v2)(fd, parts, count, offset, flags);
}

ssize_t preadv2(int fd, const struct iovec *parts, int count, off_t offset, int flags)
{
    return preadv64v2(fd, parts, count, offset, flags);
}

int fdatasync(int fd)
{
    struct fault fault;
    if (meets_fd("sync", fd, &fault) && fault.number)
        return failed(fault.number);
    return syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
    struct fault fault;
    if (meets_fd("sync", fd, &fault) && fault.number)
        return failed(fault.number);
    return syscall(SYS_fsync, fd);
}

int posix_fallocate64(int fd, off64_t offset, off64_t length)
{
    struct fault fault;
    if (meets_fd("create", fd, &fault) && fault.number)
        return fault.number;
    return REAL(posix_fallocate64)(fd, offset, length);
}

int posix_fallocate(int fd, off_t offset, off_t length)
{
    return posix_fallocate64(fd, offset, length);
}

int rename(const char *old, const char *new)
{
    struct fault fault;
    if (meets("rename", old, &fault) && fault.number)
        return failed(fault.number);
    return syscall(SYS_renameat, AT_FDCWD, old, AT_FDCWD, new);
}

int unlink(const char *path)
{
    struct fault fault;
    if (meets("unlink", path, &fault) && fault.number)
        return failed(fault.number);
    return syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}
