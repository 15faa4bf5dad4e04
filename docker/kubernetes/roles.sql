-- The four logins of the ledger's database, none of which has a right on the server. Run once, as the administrator of a
-- PostgreSQL 15 or newer; passwords go in by variables that psql quotes:
--
--   psql --set=owner="$OWNER" --set=charge="$CHARGE" --set=view="$VIEW" --set=administer="$ADMINISTER" --file=roles.sql
--   psql --file=database.sql
--
-- Then ledger.yaml's migration makes the tables, as their owner, and grants the other logins their part in them
-- (`dp-budget grants` prints the SQL).
\set ON_ERROR_STOP on
SET log_statement = 'none';
SET log_min_duration_statement = -1;

-- makes and changes tables, and grants; used by the migration and the backup alone
CREATE ROLE ledger_owner LOGIN PASSWORD :'owner';
-- Airflow's workers: reserve, commit, burn
CREATE ROLE ledger_charge LOGIN PASSWORD :'charge';
-- Airflow's API server and triggerer: read
CREATE ROLE ledger_view LOGIN PASSWORD :'view';
-- the privacy officer: open accounts, raise caps, thaw
CREATE ROLE ledger_administer LOGIN PASSWORD :'administer';
