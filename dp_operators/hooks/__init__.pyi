from dp_operators.hooks.ledger import PrivacyLedgerHook as PrivacyLedgerHook
