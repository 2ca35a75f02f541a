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
    "ben-arous-2021": (
        "article",
        "Gerard Ben Arous and Reza Gheissari and Aukosh Jagannath",
        "Online stochastic gradient descent on non-convex losses from high-dimensional inference",
        "Journal of Machine Learning Research 22",
        2021,
    ),
    "abbe-2023": (
        "inproceedings",
        "Emmanuel Abbe and Enric Boix-Adsera and Theodor Misiakiewicz",
        "SGD learning on neural networks: leap complexity and saddle-to-saddle dynamics",
        "Conference on Learning Theory",
        2023,
    ),
    "damian-2024": (
        "inproceedings",
        "Alex Damian and Loucas Pillaud-Vivien and Jason D. Lee and Joan Bruna",
        "Computational-Statistical Gaps in Gaussian Single-Index Models",
        "Conference on Learning Theory, arXiv:2403.05529",
        2024,
    ),
    "damian-2025": (
        "article",
        "Alex Damian and Jason D. Lee and Joan Bruna",
        "The Generative Leap: Sharp Sample Complexity for Efficiently Learning Gaussian Multi-Index Models",
        "arXiv:2506.05500",
        2025,
    ),
    "dandi-2024": (
        "inproceedings",
        "Yatin Dandi and Emanuele Troiani and Luca Arnaboldi and Luca Pesce and Lenka Zdeborova and Florent Krzakala",
        "The Benefits of Reusing Batches for Gradient Descent in Two-Layer Networks: "
        "Breaking the Curse of Information and Leap Exponents",
        "ICML, arXiv:2402.03220",
        2024,
    ),
    "barbier-2019": (
        "article",
        "Jean Barbier and Florent Krzakala and Nicolas Macris and Leo Miolane and Lenka Zdeborova",
        "Optimal errors and phase transitions in high-dimensional generalized linear models",
        "Proceedings of the National Academy of Sciences 116",
        2019,
    ),
    "luo-alghamdi-lu-2019": (
        "article",
        "Wangyu Luo and Wael Alghamdi and Yue M. Lu",
        "Optimal Spectral Initialization for Signal Recovery With Applications to Phase Retrieval",
        "IEEE Transactions on Signal Processing 67",
        2019,
    ),
    "aubin-2018": (
        "inproceedings",
        "Benjamin Aubin and Antoine Maillard and Jean Barbier and Florent Krzakala and Nicolas Macris "
        "and Lenka Zdeborova",
        "The committee machine: Computational to statistical gaps in learning a two-layers neural network",
        "Advances in Neural Information Processing Systems 31",
        2018,
    ),
    "defilippis-2025": (
        "article",
        "Leonardo Defilippis and Yatin Dandi and Pierre Mergny and Florent Krzakala and Bruno Loureiro",
        "Optimal Spectral Transitions in High-Dimensional Multi-Index Models",
        "arXiv:2502.02545",
        2025,
    ),
    "silverstein-choi-1995": (
        "article",
        "Jack W. Silverstein and Sang-Il Choi",
        "Analysis of the limiting spectral distribution of large dimensional random matrices",
        "Journal of Multivariate Analysis 54",
        1995,
    ),
    "paul-silverstein-2009": (
        "article",
        "Debashis Paul and Jack W. Silverstein",
        "No eigenvalues outside the support of the limiting empirical spectral distribution of a separable covariance "
        "matrix",
        "Journal of Multivariate Analysis 100",
        2009,
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
