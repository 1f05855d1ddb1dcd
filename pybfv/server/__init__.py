"""The server: adds and multiplies ciphertexts; it holds no secret key and can't import one's code."""
