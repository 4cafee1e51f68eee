"""A Step as machine code, by LLVM (llvmlite, an extra): ``program.py`` is what a program is, ``emitter.py`` writes it."""
