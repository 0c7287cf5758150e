import type { Database } from '../../src/storage/database.ts'
import { MEMBER, ORGANIZATION } from './provided.ts'

/**
 * Makes the role that the suites run as under row-level security, and gives it what the service path needs beyond what
 * every member has: the catalogue of tools, its own organization's settings, its people, and a look at the migrations
 * at start. It owns nothing, cannot bypass a policy, and sees one organization in every statement. Truncation knows no
 * policies: it is there for `empty` alone. A program that embeds Bailiff names its organization and does not number
 * it; the one it names by default becomes the one that is seen.
 */
export async function makeMember(template: Database): Promise<void> {
  await template.execute(`
    CREATE ROLE ${MEMBER.name} LOGIN PASSWORD '${MEMBER.password}' NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE
      IN ROLE bailiff_member;
    ALTER ROLE ${MEMBER.name} SET app.organization_id = '${ORGANIZATION}';
    GRANT SELECT, INSERT, UPDATE ON agent.tools, agent.users, agent.organizations TO ${MEMBER.name};
    GRANT SELECT, INSERT, UPDATE, DELETE ON agent.connection_secrets, agent.connection_authorizations TO ${MEMBER.name};
    GRANT SELECT ON public.agent_migrations TO ${MEMBER.name};
    GRANT CREATE ON SCHEMA public TO ${MEMBER.name};
    GRANT TRUNCATE ON ALL TABLES IN SCHEMA agent, public TO ${MEMBER.name};
    CREATE FUNCTION agent.usual_organization() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN NEW.id := '${ORGANIZATION}'; RETURN NEW; END $$;
    CREATE TRIGGER usual_organization BEFORE INSERT ON agent.organizations FOR EACH ROW
      WHEN (NEW.slug = 'default') EXECUTE FUNCTION agent.usual_organization();
    DO $$
      DECLARE guarded regclass;
      BEGIN
        FOR guarded IN SELECT oid FROM pg_class WHERE relrowsecurity LOOP
          EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', guarded);
        END LOOP;
      END $$`)
}
