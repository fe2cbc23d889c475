"""Hook of MkDocs: the site of the manual also has the pages beside docs/ that it links to.

README.md is its front page. Links to files that are no page of the site become plain text.
"""

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
BESIDE: Final = ("CHANGELOG.md", "README.md", "deploy/README.md", "deploy/monitoring/README.md")
LINK: Final = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:)([^)#\s]+)((?:#[^)\s]*)?)\)")


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for name in BESIDE:
        text = (ROOT / name).read_text("utf-8")
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    known = {each.src_uri for each in files}
    return with_links_of_site(markdown, page.file.src_uri, known)


def with_links_of_site(markdown: str, page: str, known: set[str]) -> str:
    """The page with links to other pages of the site in place of those to files of the sources."""
    folder = PurePosixPath(page if page in BESIDE else f"docs/{page}").parent

    def link(found: re.Match[str]) -> str:
        mark, text, place, anchor = found.groups()
        target = normpath(folder / place).removeprefix("docs/")
        if target not in known:
            return text
        return f"{mark}[{text}]({relpath(target, PurePosixPath(page).parent)}{anchor})"

    return LINK.sub(link, markdown)
