"""Networks in a browser: WebAssembly, and a page to play with."""
