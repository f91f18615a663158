"""Reads the text exposition format of /metrics, as far as keyferryd uses it."""

import re

SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


class Metrics(dict):
    """{name: {frozenset of (label, value): number}} of one scrape, with sums over what a test does not care about."""

    def total(self, name, **labels):
        """The sum of all series of `keyferry_<name>` that bear these labels; 0 if there is none."""
        wanted = set(labels.items())
        return sum(value for found, value in self.get(f"keyferry_{name}", {}).items() if wanted <= found)


def parse(text):
    metrics = Metrics()
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        match = SAMPLE.match(line)
        if not match:
            raise ValueError(f"not a sample: {line!r}")
        name, labels, value = match.groups()
        metrics.setdefault(name, {})[frozenset(LABEL.findall(labels or ""))] = float(value)
    return metrics
