"""From LLVM's text to addresses, and what programs and Python know of each other."""
