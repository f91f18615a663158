#!/usr/bin/env python3
"""Runs every fuzzer of a build folder for some seconds, with the seeds and dictionary that ctest knows for it.

    run_fuzzers.py --targets BUILD           their names, for ninja
    run_fuzzers.py BUILD SECONDS JUNIT       runs them one after another; inputs that broke one stay in BUILD/fuzz-findings; exit status 1 if any did
"""
import json
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as xml


def fuzzers(build):
    listed = subprocess.run(["ctest", "--test-dir", build, "-L", "fuzz", "--show-only=json-v1"], check=True, capture_output=True, text=True)
    tests = json.loads(listed.stdout)["tests"]
    for test in tests:
        program, *arguments = test.get("command") or [build / "bin" / test["name"]]
        yield test["name"], [program, *(each for each in arguments if not each.startswith(("-runs=", "-seed=")))]


def main():
    if sys.argv[1] == "--targets":
        print(*(name for name, _ in fuzzers(pathlib.Path(sys.argv[2]).resolve())))
        return 0
    build, seconds, report = pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2]), pathlib.Path(sys.argv[3])
    findings = build / "fuzz-findings"
    findings.mkdir(exist_ok=True)
    suite = xml.Element("testsuite", name="fuzz")
    failed = 0
    for name, (program, *arguments) in fuzzers(build):
        corpus = build / "fuzz-corpus" / name  # new inputs go to the first folder that is named, and the seeds in the tree stay as they are
        corpus.mkdir(parents=True, exist_ok=True)
        options = [each for each in arguments if each.startswith("-")]
        seeds = [each for each in arguments if not each.startswith("-")]
        command = [program, f"-max_total_time={seconds}", f"-artifact_prefix={findings}/{name}-", *options, corpus, *seeds]
        done = subprocess.run([str(each) for each in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        case = xml.SubElement(suite, "testcase", classname="fuzz", name=name)
        print(f"{name}: {done.stdout.strip().splitlines()[-1] if done.stdout.strip() else 'no output'}", flush=True)
        if done.returncode != 0:
            failed += 1
            xml.SubElement(case, "failure", message=f"ended with status {done.returncode}; inputs: {findings}").text = done.stdout[-4000:]
            print(done.stdout[-4000:], flush=True)
    xml.ElementTree(suite).write(report)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
