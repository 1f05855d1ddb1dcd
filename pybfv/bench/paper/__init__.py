"""The figures of a published system beside this machine and the model: `pybfv bench paper`.

Gupta et al., "Evaluating Homomorphic Operations on a Real-World Processing-In-Memory System", IISWC 2023,
arXiv 2309.06545. What runs here is measured; what UPMEM hardware would take is modelled (docs/time-model.md) and
says so in its name.
"""
