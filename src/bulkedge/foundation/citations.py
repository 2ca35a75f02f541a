"""The papers the answers rest on, and BibTeX for exactly those used."""

from __future__ import annotations

ENTRIES = {
    "montanari-wang-2026": (
        "article",
        "Andrea Montanari and Zihao Wang",
        "Phase Transitions for Feature Learning in Neural Networks",
        "arXiv:2602.01434",
        2026,
    ),
    "celentano-cheng-montanari-2021": (
        "article",
        "Michael Celentano and Chen Cheng and Andrea Montanari",
        "The high-dimensional asymptotics of first order methods with random data",
        "arXiv:2112.07572",
        2021,
    ),
    "lu-2020": (
        "article",
        "Yue M. Lu",
        "Householder Dice: A Matrix-Free Algorithm for Simulating Dynamics on Gaussian and Random Orthogonal Ensembles",
        "arXiv:2101.07464",
        2021,
    ),
    "mondelli-montanari-2018": (
        "inproceedings",
        "Marco Mondelli and Andrea Montanari",
        "Fundamental Limits of Weak Recovery with Applications to Phase Retrieval",
        "Conference on Learning Theory",
        2018,
    ),
    "troiani-2025": (
        "inproceedings",
        "Emanuele Troiani and Yatin Dandi and Leonardo Defilippis and Lenka Zdeborova and Bruno Loureiro "
        "and Florent Krzakala",
        "Fundamental computational limits of weak learnability in high-dimensional multi-index models",
        "AISTATS, arXiv:2405.15480",
        2025,
    ),
    "kovacevic-2025": (
        "inproceedings",
        "Filip Kovačević and Yihan Zhang and Marco Mondelli",
        "Spectral Estimators for Multi-Index Models: Precise Asymptotics and Optimal Weak Recovery",
        "Conference on Learning Theory, arXiv:2502.01583",
        2025,
    ),
    "silverstein-choi-1995": (
        "article",
        "Jack W. Silverstein and Sang-Il Choi",
        "Analysis of the limiting spectral distribution of large dimensional random matrices",
        "Journal of Multivariate Analysis 54",
        1995,
    ),
}


def cite(*keys: str) -> str:
    """BibTeX entries for the given keys, in the order given."""
    return "\n".join(_bibtex(key) for key in dict.fromkeys(keys))


def _bibtex(key: str) -> str:
    kind, author, title, venue, year = ENTRIES[key]
    place = "journal" if kind == "article" else "booktitle"
    return (
        f"@{kind}{{{key},\n  author = {{{author}}},\n  title = {{{title}}},\n"
        f"  {place} = {{{venue}}},\n  year = {{{year}}}\n}}"
    )
