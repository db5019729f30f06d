"""The page of the documentation that has the tables: what stands between markers is written anew."""

import re


def write(path, part, report):
    """Puts what a part said between its markers."""
    begin, end = f"<!-- {part}: written by make validate -->", f"<!-- {part}: end -->"
    failed = [f"**These fail:** {'; '.join(report.failed)}."] if report.failed else []
    block = "\n\n".join([begin, *report.said, *failed, end])
    text, count = re.subn(re.escape(begin) + ".*?" + re.escape(end), lambda _: block, path.read_text(), flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"{path} has no markers for {part}")
    path.write_text(text)
