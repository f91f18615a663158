#!/usr/bin/env python3
"""Checks that includes between the folders of lib/ only point downwards, that there is no circle, and that every folder has a README.

    check_layers.py [ROOT]      prints what is wrong, one a line; exit status 1 if anything is

A folder that is not in LAYERS is an error too: its place has to be decided here.
"""
import pathlib
import re
import sys

LAYERS = ["gateway", "transfer", "upstream", "ring", "fabric", "memory", "resp", "telemetry", "base"]  # from the top
# What applications link: it must not drag the daemon along.
BESIDE = {"client": {"ring", "resp", "base"}}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([a-z0-9_]+)/[^>"]*[>"]')
SOURCES = {".h", ".hpp", ".c", ".cpp"}


def allowed(folder):
    if folder in BESIDE:
        return BESIDE[folder] | {folder}
    return set(LAYERS[LAYERS.index(folder):])


def problems(root):
    lib = root / "lib"
    folders = {path.name for path in lib.iterdir() if path.is_dir()}
    for unknown in sorted(folders - set(LAYERS) - set(BESIDE)):
        yield f"lib/{unknown}: no place in tests/support/check_layers.py"
    for folder in sorted(folders & (set(LAYERS) | set(BESIDE))):
        if not (lib / folder / "README.md").is_file():
            yield f"lib/{folder}: no README.md"
        for path in sorted(path for path in (lib / folder).rglob("*") if path.suffix in SOURCES):
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                match = INCLUDE.match(line)
                if match and match[1] in folders and match[1] not in allowed(folder):
                    yield f"{path.relative_to(root)}:{number}: {folder} must not include {match[1]}"


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]
    found = list(problems(root))
    for each in found:
        print(each)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
