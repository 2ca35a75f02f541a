"""The command line: parsing and printing, nothing more."""


def main() -> int:
    return 0
