import type { Database } from '../../src/storage/database.ts'
import { MEMBER, ORGANIZATION } from './provided.ts'

/**
 * Makes the role that the suites run as under row-level security, and gives it what the service path needs beyond what
 * every member has: the catalogue of tools, its own organization's settings, its people, and a look at the migrations
 * at start. It owns nothing, cannot bypass a policy, and sees one organization in every statement. Truncation knows no
 * policies: it is there for `empty` alone.
 */
export async function makeMember(template: Database): Promise<void> {
  await template.execute(`
    CREATE ROLE ${MEMBER.name} LOGIN PASSWORD '${MEMBER.password}' NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE
      IN ROLE bailiff_member;
    ALTER ROLE ${MEMBER.name} SET app.organization_id = '${ORGANIZATION}';
    GRANT SELECT, INSERT, UPDATE ON agent.tools, agent.users, agent.organizations TO ${MEMBER.name};
    GRANT SELECT ON public.agent_migrations TO ${MEMBER.name};
    GRANT CREATE ON SCHEMA public TO ${MEMBER.name};
    GRANT TRUNCATE ON ALL TABLES IN SCHEMA agent, public TO ${MEMBER.name};
    DO $$
      DECLARE guarded regclass;
      BEGIN
        FOR guarded IN SELECT oid FROM pg_class WHERE relrowsecurity LOOP
          EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', guarded);
        END LOOP;
      END $$`)
}
