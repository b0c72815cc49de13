"""Fits a line to noisy points by gradient descent; any segment can be repeated from its checkpoint."""

import numpy
import opengpu_checkpoint as opengpu

generator = numpy.random.default_rng(7)
x = generator.uniform(-1, 1, 256)
y = 3 * x - 1 + generator.normal(0, 0.1, 256)

state = {"weights": numpy.zeros(2), "random": numpy.random.default_rng(1)}
for step in opengpu.steps(state, until=100):
    rows = state["random"].integers(0, 256, 32)
    slope, offset = state["weights"]
    error = slope * x[rows] + offset - y[rows]
    state["weights"] = state["weights"] - 0.2 * numpy.array(
        [numpy.mean(error * x[rows]), numpy.mean(error)]
    )
    if step % 20 == 0:
        print(f"step {step}: y = {state['weights'][0]:.3f} x + {state['weights'][1]:.3f}")
