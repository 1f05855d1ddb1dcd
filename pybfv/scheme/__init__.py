"""The BFV scheme: parameters in, ciphertexts with known factor and noise out."""
