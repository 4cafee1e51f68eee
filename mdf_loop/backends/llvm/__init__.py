"""A Step as machine code, by LLVM (llvmlite, an extra): ``program.py`` says what a program is, ``emitter.py`` how it is made."""
