#!/usr/bin/env python3
"""Sums what the runners of tests/run reported.

    tally.py FOLDER      prints the failures, then `N passed, M failed, K skipped` alone on a line; exit status 1 if anything failed or nothing ran

FOLDER has JUnit files: *.xml of GoogleTest and pytest, and *.ctest.xml of ctest, which tells of programs: one that failed without a failed case of its own
(a crash, a time-out) counts as one failure, one that is no GoogleTest program counts as one case.
"""
import os
import pathlib
import sys
import xml.etree.ElementTree as xml


def cases(path):
    """(name, 'passed' | 'failed' | 'skipped', text) of each case."""
    for case in xml.parse(path).getroot().iter("testcase"):
        name = f"{case.get('classname', '')}.{case.get('name', '')}".strip(".")
        outcome, text = "passed", ""
        for child in case:
            if child.tag in ("failure", "error"):
                outcome, text = "failed", child.get("message") or child.text or ""
            elif child.tag == "skipped" and outcome == "passed":
                outcome, text = "skipped", child.get("message") or ""
        if case.get("status") in ("notrun", "disabled", "fail") and outcome == "passed":
            outcome = "failed" if case.get("status") == "fail" else "skipped"
        yield name, outcome, text.strip().splitlines()[0][:300] if text.strip() else ""


def main():
    folder = pathlib.Path(sys.argv[1])
    found = []
    for path in sorted(folder.rglob("*.xml")):
        stage = path.relative_to(folder).parts[0].removesuffix(".xml").removesuffix(".ctest")
        if path.name.endswith(".ctest.xml"):
            # The cases of its programs stand in a folder beside it, one file a program.
            reported = {each.stem: list(cases(each)) for each in path.with_name(path.name.removesuffix(".ctest.xml")).glob("*.xml")}
            for name, outcome, text in cases(path):
                program = name.rsplit(".", 1)[-1]
                # A program that is not there is no skipped test, and a tool that is not there fails CI.
                if outcome == "skipped" and ("SKIP_" not in text or os.environ.get("CI")):
                    outcome = "failed"
                own = reported.get(program)
                if own is None or (outcome == "failed" and all(each[1] != "failed" for each in own)):
                    found.append((stage, program, outcome, text))
        else:
            found += [(stage, *case) for case in cases(path)]
    for outcome in ("skipped", "failed"):
        for stage, name, how, text in found:
            if how == outcome:
                print(f"{outcome}: {stage}: {name}{': ' + text if text else ''}")
    count = {outcome: sum(each[2] == outcome for each in found) for outcome in ("passed", "failed", "skipped")}
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return 1 if count["failed"] or not count["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
