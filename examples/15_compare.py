"""Run one model by several integrators from one start: what each costs and keeps."""

import limberjack as lj

model = lj.scenes.pendulum(links=10)
methods = {
    "reference": lj.Full(integrator="rk4"),
    "variational": lj.Full(),
    "projected": lj.Full(integrator="projected"),
    "euler": lj.Full(integrator="euler"),
}
found = lj.compare(model, methods, seconds=0.5, dt=1 / 240)
print(found)

apart = {label: distance[-1] for label, distance in found.distances().items()}
assert apart["reference"] == 0.0
assert apart["variational"] < apart["projected"]  # second order against first
assert not found.failures
