/* stall: tells when the machine itself stands still, beside a measurement.
 *
 * Every 5 ms it does the same small work on 4 MiB of its own memory, some 0.1 ms of it. Where that
 * takes more than LIMIT_MS of CPU time, whoever else ran at that moment was slowed down as well: a
 * hypervisor took memory back or gave the processor to others, which a guest sees as its own CPU
 * time. Each such moment is a line: its end (seconds of the epoch), how long it took by the wall
 * and on a CPU (milliseconds). Work that waited for a processor has used none, and is not told.
 *
 *   stall [LIMIT_MS]      2 ms if not said; runs until it is terminated
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BYTES (4u << 20)
#define STRIDE 256
#define REST_NS (5 * 1000 * 1000)

static volatile sig_atomic_t ending;

static void on_signal(int number)
{
    (void)number;
    ending = 1;
}

static double ms(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

int main(int count, char **words)
{
    double limit_ms = count > 1 ? atof(words[1]) : 2.0;
    volatile unsigned char *memory = malloc(BYTES);
    struct timespec rest = {0, REST_NS};
    struct sigaction action;

    if (memory == NULL || limit_ms <= 0) {
        fprintf(stderr, "usage: stall [LIMIT_MS]\n");
        return 2;
    }
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    memset((void *)memory, 1, BYTES);
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (!ending) {
        double wall = ms(CLOCK_MONOTONIC), cpu = ms(CLOCK_THREAD_CPUTIME_ID);
        for (size_t at = 0; at < BYTES; at += STRIDE)
            memory[at]++;
        cpu = ms(CLOCK_THREAD_CPUTIME_ID) - cpu;
        wall = ms(CLOCK_MONOTONIC) - wall;
        if (cpu > limit_ms)
            printf("%.4f %.1f %.1f\n", ms(CLOCK_REALTIME) / 1e3, wall, cpu);
        nanosleep(&rest, NULL);
    }
    return 0;
}
