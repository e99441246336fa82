"""The run file: its format (`runfile`), creation, writer (`ledger`), columns, spec, digests, and rounds read back."""
