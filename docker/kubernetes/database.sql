-- The ledger's database, empty, for nobody but its four logins (roles.sql). Run as the server's administrator; again before
-- a backup is restored, once the old database is out of the way:
--
--   ALTER DATABASE privacy_ledger RENAME TO privacy_ledger_before;
\set ON_ERROR_STOP on
CREATE DATABASE privacy_ledger OWNER ledger_owner TEMPLATE template0;
REVOKE ALL ON DATABASE privacy_ledger FROM PUBLIC;
GRANT CONNECT ON DATABASE privacy_ledger TO ledger_charge, ledger_view, ledger_administer;
\connect privacy_ledger
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO ledger_charge, ledger_view, ledger_administer;
