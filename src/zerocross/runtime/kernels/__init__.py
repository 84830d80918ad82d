"""The compiled kernels: tiles in LLVM vector code, the steps built from them, and whole programs."""
