"""Proteus: trains machine-learning models on a mix of a few reliable machines and many cheap revocable ones.

run, start            train by a bundled app or one of your own, from a script or a notebook: see help(proteus.run).
load                  reads a model that a bundled app has written.
proteus.sklearn       estimators in the manner of scikit-learn.
App, main             for apps of your own, with parameters (Table), numbers in the report (Metric) and options
                      (Option): see help(proteus.App). `proteus run -- python3 app.py` trains one from the shell.

docs/python.md has a tutorial and says more."""

from ._app import App, main
from ._declare import (FTRL, AdaGrad, Adam, Metric, Momentum, Normal, Optimizer, Option, Stage, Steps, Table, Transform,
                       Uniform, stage, transform)
from ._errors import InputError
from ._job import Job, JobError, Report, run, start
from ._worker import Items, Lines, Rows, VariedItem, VariedItems, Worker
from .models import (GraphNetworkModel, LogisticRegressionModel, MatrixFactorizationModel, ModelError, NetworkModel,
                     TopicModel, load)

__all__ = [
    "AdaGrad", "Adam", "App", "FTRL", "GraphNetworkModel", "InputError", "Items", "Job", "JobError", "Lines",
    "LogisticRegressionModel", "MatrixFactorizationModel", "Metric", "ModelError", "Momentum", "NetworkModel", "Normal",
    "Optimizer", "Option", "Report", "Rows", "Stage", "Steps", "Table", "TopicModel", "Transform", "Uniform",
    "VariedItem", "VariedItems", "Worker", "load", "main", "run", "stage", "start", "transform",
]
