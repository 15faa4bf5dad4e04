"""SQL for PostgreSQL: the server parses the blocks of a charge, moves their totals, and refuses what does not fit.

Amounts are stored as text and computed as ``numeric``, which is exact; a limit that is NULL admits nothing.
"""

# whether a name is a block of an account's expression; the program checks the same, with a message
IS_BLOCK = """
CREATE FUNCTION is_block(expression jsonb, name text) RETURNS boolean LANGUAGE plpgsql
SET search_path = {schema}, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    form text;
BEGIN
    IF expression IS NULL THEN
        RETURN name = 'all';
    END IF;
    IF expression ->> 'by' = 'value' THEN
        RETURN name NOT IN ('all', 'interval') AND octet_length(name) BETWEEN 1 AND 200
            AND (jsonb_typeof(expression -> 'values') = 'null' OR expression -> 'values' ? name);
    END IF;
    form := CASE expression ->> 'by' WHEN 'year' THEN 'YYYY' WHEN 'month' THEN 'YYYY-MM' WHEN 'day' THEN 'YYYY-MM-DD'
        ELSE 'YYYY-MM-DD"T"HH24' END;
    RETURN name >= '1900' AND name < '9999' COLLATE "C" AND to_char(to_timestamp(name, form), form) = name;
EXCEPTION WHEN datetime_field_overflow OR invalid_datetime_format THEN
    RETURN false;
END $$
"""
# the names of a charge's blocks, with ranges `first..last` by time expanded; NULL if one is not a block
BLOCK_LIST = """
CREATE FUNCTION block_list(expression jsonb, blocks text) RETURNS text[] LANGUAGE plpgsql
SET search_path = {schema}, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    unit CONSTANT text := expression ->> 'by';
    form CONSTANT text := CASE unit WHEN 'year' THEN 'YYYY' WHEN 'month' THEN 'YYYY-MM' WHEN 'day' THEN 'YYYY-MM-DD'
        WHEN 'hour' THEN 'YYYY-MM-DD"T"HH24' END;
    written text;
    ends text[];
    names text[] := '{}';
BEGIN
    FOR written IN SELECT jsonb_array_elements_text(blocks::jsonb) LOOP
        ends := string_to_array(written, '..');
        IF form IS NULL OR cardinality(ends) <> 2 THEN
            IF NOT is_block(expression, written) THEN
                RETURN NULL;
            END IF;
            names := names || written;
        ELSIF is_block(expression, ends[1]) AND is_block(expression, ends[2]) AND ends[1] < ends[2] COLLATE "C" THEN
            names := names || ARRAY(SELECT to_char(moment, form) FROM generate_series(
                to_timestamp(ends[1], form), to_timestamp(ends[2], form), ('1 ' || unit)::interval) AS moment
                LIMIT 4001);
        ELSE
            RETURN NULL;
        END IF;
        IF cardinality(names) > 4000 THEN
            RETURN NULL;
        END IF;
    END LOOP;
    RETURN names;
END $$
"""
# for any number of blocks in one statement
MOVE_TOTALS = """
CREATE FUNCTION move_totals() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = {schema}, pg_temp AS $$
DECLARE
    e CONSTANT numeric := NEW.epsilon;
    d CONSTANT numeric := NEW.delta;
    r CONSTANT numeric := NEW.rho;
    payer record;
    most record;
    fits boolean;
    purse text := '';
    paying text[] := ARRAY['all'];
BEGIN
    SELECT composition, unit_stays = 1 AND blocks IS NOT NULL AS by_block, composition <> 'zcdp' AS in_epsilon,
        blocks::jsonb AS expression, epsilon::numeric AS e, delta::numeric - slack::numeric AS d, rho::numeric AS r
        INTO STRICT payer FROM accounts WHERE name = NEW.account;
    IF payer.by_block THEN
        paying := block_list(payer.expression, NEW.blocks);
        IF paying IS NULL THEN
            RAISE insufficient_privilege USING MESSAGE = 'permission denied for table charges: no blocks';
        END IF;
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
        WITH moved AS (
            INSERT INTO block_totals (account, allotment, block, epsilon, delta, rho)
            SELECT NEW.account, purse, place, trim_scale(e)::text, trim_scale(d)::text, trim_scale(r)::text
            FROM unnest(paying) AS place
            ON CONFLICT (account, allotment, block) DO UPDATE SET
                epsilon = trim_scale(block_totals.epsilon::numeric + e)::text,
                delta = trim_scale(block_totals.delta::numeric + d)::text,
                rho = trim_scale(block_totals.rho::numeric + r)::text
            RETURNING epsilon::numeric AS sum_e, delta::numeric AS sum_d, rho::numeric AS sum_r
        )
        SELECT bool_and((sum_d <= most.d
            AND ((payer.in_epsilon AND sum_e <= most.e) OR sum_r <= most.r)) IS TRUE) INTO fits FROM moved;
        IF fits IS NOT TRUE THEN
            RAISE SQLSTATE 'DP001' USING MESSAGE = 'the charge does not fit';
        END IF;
        EXIT WHEN purse = NEW.allotment;
        purse := NEW.allotment;
        SELECT epsilon::numeric AS e, delta::numeric - slack::numeric AS d, rho::numeric AS r INTO most
            FROM allotments WHERE account = NEW.account AND name = purse;
    END LOOP;
    RETURN NULL;
END $$
"""
ONLY_BY_CHARGES = """
CREATE FUNCTION only_by_charges() RETURNS trigger LANGUAGE plpgsql SET search_path = {schema}, pg_temp AS $$
BEGIN
    RAISE insufficient_privilege
        USING MESSAGE = 'permission denied for table block_totals: totals are moved by charges alone';
END $$
"""
