"""What scikit-learn's MLPClassifier makes of samples with its defaults (one layer of 100 units, Adam, at most 200
passes), of standardized features."""

import time
import warnings

from scipy import sparse
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

import linear


def measure(split):
    """{loss, accuracy, cpu} of the test samples."""
    (x, y), (u, v) = split.train, split.test
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fits that are not converged
        scaler = StandardScaler(with_mean=not sparse.issparse(x)).fit(x)
        model = MLPClassifier(random_state=0).fit(scaler.transform(x), y)
        probabilities = model.predict_proba(scaler.transform(u))
    return {"loss": linear.log_loss(probabilities, model.classes_, v),
            "accuracy": float((model.classes_[probabilities.argmax(axis=1)] == v).mean()),
            "cpu": time.process_time() - began}
