"""Title, licence and address of the datasets of the zoo's networks, by dataset name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """Description of a dataset on a card; {source} is replaced by the data source that the run recorded."""

    title: str
    data: str
    licence: str
    address: str


SOURCES = {
    "digits": Source(
        "Handwritten digits, 8 x 8",
        "scikit-learn's digits, from UCI's Optical Recognition of Handwritten Digits (Alpaydin, Kaynak 1998)",
        "CC BY 4.0",
        "https://doi.org/10.24432/C50P49",
    ),
    "mnist": Source(
        "Handwritten digits, 28 x 28",
        "MNIST (LeCun, Cortes, Burges)",
        "CC BY-SA 3.0",
        "http://yann.lecun.com/exdb/mnist/",
    ),
    "fashion-mnist": Source(
        "Articles of clothing, 28 x 28",
        "Fashion-MNIST (Xiao, Rasul, Vollgraf 2017)",
        "MIT",
        "https://github.com/zalandoresearch/fashion-mnist",
    ),
    "audiomnist": Source(
        "Spoken digits of unseen speakers",
        "AudioMNIST (Becker et al. 2018), fold 0, log-mel features at 8 kHz",
        "MIT",
        "https://github.com/soerenab/AudioMNIST",
    ),
    "cifar10": Source(
        "Photographs of ten kinds, 32 x 32",
        "CIFAR-10 (Krizhevsky 2009)",
        "none stated; cite Krizhevsky, Learning multiple layers of features from tiny images, 2009",
        "https://www.cs.toronto.edu/~kriz/cifar.html",
    ),
    "ucr": Source(
        "Time series: {source}",
        "{source} (Dau et al. 2019)",
        "none stated; cite Dau et al., The UCR time series archive, 2019",
        "https://www.cs.ucr.edu/~eamonn/time_series_data_2018/",
    ),
    "hapt": Source(
        "Human activities from a phone's motion sensors, unseen people",
        "UCI HAPT: smartphone-based recognition of human activities and postural transitions (Reyes-Ortiz et al. 2015)",
        "given as CC BY 4.0 by UCI; the authors' notice to its sister set HAR forbids commercial use",
        "https://doi.org/10.24432/C54G7M",
    ),
}
