"""Fits a plane to noisy points, a few at a time."""

import numpy
import opengpu_checkpoint as opengpu

random = numpy.random.default_rng(7)
points = random.normal(size=(200, 5))
wanted = points @ numpy.arange(5.0) + 0.1 * random.normal(size=200)

state = {"weights": numpy.zeros(5), "random": numpy.random.default_rng(11), "loss": 0.0}
for step in opengpu.steps(state):
    chosen = state["random"].integers(0, 200, size=16)
    error = points[chosen] @ state["weights"] - wanted[chosen]
    state["weights"] = state["weights"] - 0.05 * points[chosen].T @ error / 16
    state["loss"] = float(numpy.mean(error**2))
