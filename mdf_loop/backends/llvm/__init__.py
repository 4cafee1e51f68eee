"""A Step as machine code, by LLVM (llvmlite, an extra): ``machine_program.py`` says what a program is, ``emitter.py`` writes it."""
