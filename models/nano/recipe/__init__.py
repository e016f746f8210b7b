"""How the nano base is made: tokenizer, corpus, pretraining, measurement.

Everything follows from a seed, the environments and the harness document.
"""
