"""The client's side: reading tables, planning, keys, encryption and decryption."""
