"""Whether an account's sizes may be declared public; on PostgreSQL, totals that the server itself moves and guards.

There, a charge that is written moves the totals of its blocks, and is refused where they have no room; a charge that
becomes void takes its cost back. Nothing else changes a total: no role that may charge, with SQL of its own, and no
process of an earlier version that still runs with the owner's login, and would add and take off a second time.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

# amounts are text in the rows and numeric, which is exact, in between; a limit that is NULL admits nothing
MOVE_TOTALS = """
CREATE FUNCTION move_totals() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
DECLARE
    e CONSTANT numeric := NEW.epsilon;
    d CONSTANT numeric := NEW.delta;
    r CONSTANT numeric := NEW.rho;
    payer record;
    most record;
    total record;
    purse text := '';
    paying text[] := ARRAY['all'];
    place text;
BEGIN
    SELECT composition, unit_stays = 1 AND blocks IS NOT NULL AS by_block, composition <> 'zcdp' AS in_epsilon,
        epsilon::numeric AS e, delta::numeric - slack::numeric AS d, rho::numeric AS r
        INTO STRICT payer FROM accounts WHERE name = NEW.account;
    IF payer.by_block THEN
        paying := ARRAY(SELECT DISTINCT jsonb_array_elements_text(NEW.blocks::jsonb) ORDER BY 1);
    END IF;
    IF NEW.state = 'void' THEN
        UPDATE block_totals SET
            epsilon = trim_scale(epsilon::numeric - e)::text,
            delta = trim_scale(delta::numeric - d)::text,
            rho = trim_scale(rho::numeric - r)::text
        WHERE account = NEW.account AND allotment IN ('', NEW.allotment) AND block = ANY(paying);
        RETURN NULL;
    END IF;
    IF cardinality(paying) = 0 OR NOT (CASE payer.composition
        WHEN 'pure' THEN e > 0 AND d = 0 AND r IS NULL
        WHEN 'zcdp' THEN d = 0 AND r > 0 AND (e = 0 OR (e > 0 AND 2 * r = e * e))
        ELSE e > 0 AND d >= 0 AND 2 * r = e * e END) IS TRUE
    THEN
        RAISE insufficient_privilege USING MESSAGE = 'permission denied for table charges: no cost of this account';
    END IF;
    most := payer;
    LOOP
        FOREACH place IN ARRAY paying LOOP
            UPDATE block_totals SET
                epsilon = trim_scale(epsilon::numeric + e)::text,
                delta = trim_scale(delta::numeric + d)::text,
                rho = trim_scale(rho::numeric + r)::text
            WHERE account = NEW.account AND allotment = purse AND block = place
            RETURNING epsilon::numeric AS e, delta::numeric AS d, rho::numeric AS r INTO total;
            IF NOT FOUND THEN
                INSERT INTO block_totals (account, allotment, block, epsilon, delta, rho)
                VALUES (NEW.account, purse, place, trim_scale(e)::text, trim_scale(d)::text, trim_scale(r)::text)
                RETURNING epsilon::numeric AS e, delta::numeric AS d, rho::numeric AS r INTO total;
            END IF;
            IF (total.d <= most.d AND ((payer.in_epsilon AND total.e <= most.e) OR total.r <= most.r)) IS NOT TRUE THEN
                RAISE SQLSTATE 'DP001' USING MESSAGE = 'the charge does not fit';
            END IF;
        END LOOP;
        EXIT WHEN purse = NEW.allotment;
        purse := NEW.allotment;
        SELECT epsilon::numeric AS e, delta::numeric - slack::numeric AS d, rho::numeric AS r INTO most
            FROM allotments WHERE account = NEW.account AND name = purse;
    END LOOP;
    RETURN NULL;
END $$
"""
# whoever may run it as a trigger of a table of their own could move totals by any amount
NOBODYS = "REVOKE ALL ON FUNCTION move_totals() FROM PUBLIC"
ONLY_THE_OWNER = """
CREATE FUNCTION only_the_owner() RETURNS trigger LANGUAGE plpgsql SET search_path = {schema}, pg_temp AS $$
BEGIN
    IF NOT pg_has_role(current_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'USAGE') THEN
        RAISE insufficient_privilege
            USING MESSAGE = 'permission denied for table ' || TG_TABLE_NAME || ': ' || TG_ARGV[0];
    END IF;
    RETURN NEW;
END $$
"""
ONLY_WITH_AN_ENTRY = """
CREATE FUNCTION only_with_an_entry() RETURNS trigger LANGUAGE plpgsql SET search_path = {schema}, pg_temp AS $$
BEGIN
    -- who may thaw may see the whole log, and nobody else may write such an entry
    IF (SELECT action FROM audit_log ORDER BY seq DESC LIMIT 1) IS DISTINCT FROM 'thawed'
        AND NOT pg_has_role(current_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'USAGE')
    THEN
        RAISE insufficient_privilege
            USING MESSAGE = 'permission denied for table audit_head: a ledger is thawed by who may administer it all';
    END IF;
    RETURN NEW;
END $$
"""
ONLY_BY_CHARGES = """
CREATE FUNCTION only_by_charges() RETURNS trigger LANGUAGE plpgsql SET search_path = {schema}, pg_temp AS $$
BEGIN
    RAISE insufficient_privilege
        USING MESSAGE = 'permission denied for table block_totals: totals are moved by charges alone';
END $$
"""
TRIGGERS = (
    "CREATE TRIGGER charge_moves_totals AFTER INSERT ON charges FOR EACH ROW EXECUTE FUNCTION move_totals()",
    "CREATE TRIGGER void_moves_totals AFTER UPDATE OF state ON charges FOR EACH ROW"
    " WHEN (OLD.state = 'reserved' AND NEW.state = 'void') EXECUTE FUNCTION move_totals()",
    "CREATE TRIGGER charges_alone_move_totals BEFORE UPDATE ON block_totals FOR EACH ROW"
    " WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION only_by_charges()",
    "CREATE TRIGGER charge_begins_reserved BEFORE INSERT ON charges FOR EACH ROW"
    " WHEN (NEW.state <> 'reserved') EXECUTE FUNCTION only_the_owner('a charge begins as reserved')",
    "CREATE TRIGGER charge_stays_settled BEFORE UPDATE ON charges FOR EACH ROW"
    " WHEN (OLD.state <> 'reserved') EXECUTE FUNCTION only_the_owner('a settled charge stays as it is')",
    "CREATE TRIGGER thaw_is_logged BEFORE UPDATE OF frozen ON audit_head FOR EACH ROW"
    " WHEN (OLD.frozen <> '' AND NEW.frozen <> OLD.frozen) EXECUTE FUNCTION only_with_an_entry()",
)
# roles that may write totals by what `dp-budget grants` printed for earlier schemas; whoever opens accounts begins them
WRITERS = """
SELECT DISTINCT grantee::regrole::text, has_table_privilege(grantee, 'accounts', 'INSERT') FROM (
    SELECT (aclexplode(relacl)).grantee FROM pg_class WHERE oid = 'block_totals'::regclass
    UNION SELECT (aclexplode(attacl)).grantee FROM pg_attribute WHERE attrelid = 'block_totals'::regclass
) AS granted WHERE grantee NOT IN (0, (SELECT relowner FROM pg_class WHERE oid = 'block_totals'::regclass))
"""


def upgrade() -> None:
    op.add_column("accounts", sa.Column("public_sizes", sa.Integer, nullable=False, server_default="0"))
    connection = op.get_bind()
    if connection.dialect.name != "postgresql":
        return
    schema = connection.exec_driver_sql("SELECT quote_ident(current_schema())").scalar_one()
    for function in (MOVE_TOTALS, ONLY_THE_OWNER, ONLY_WITH_AN_ENTRY, ONLY_BY_CHARGES):
        connection.exec_driver_sql(function.replace("{schema}", schema))
    for statement in (NOBODYS, *TRIGGERS):
        connection.exec_driver_sql(statement)
    for role, opens in connection.exec_driver_sql(WRITERS).all():
        connection.exec_driver_sql(f"REVOKE UPDATE{'' if opens else ', INSERT'} ON block_totals FROM {role}")
