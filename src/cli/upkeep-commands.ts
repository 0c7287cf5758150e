import { Option, type Command } from 'commander'
import type { DeadLetterKind } from '../runs/dead-letters.ts'
import type { DeadLetterOptions } from './commands/dead-letters.ts'
import type { EraseOptions } from './commands/personal-data.ts'
import { contextOf, type CommonOptions } from './context.ts'

/** How a command is made; one that talks to a server takes `--url` too. */
export interface CommandMakers {
  readonly command: (parent: Command, usage: string, description: string) => Command
  readonly remote: (parent: Command, usage: string, description: string) => Command
  readonly listOptions: (list: Command) => Command
}

const KINDS: readonly DeadLetterKind[] = [
  'run_failed',
  'run_held',
  'approval_expired',
  'approval_stale',
  'outcome_unanswered',
]

/** What waits for an operator, what a person may ask to be removed, and what is done with a database as a whole. */
export function addUpkeepCommands(program: Command, { command, remote, listOptions }: CommandMakers): void {
  listOptions(
    remote(program, 'dead-letters', 'what stays as it is until a person looks: failed and held runs, old questions'),
  )
    .addOption(new Option('--kind <kind>', 'of one kind').choices(KINDS))
    .action(async (options: CommonOptions & DeadLetterOptions) => {
      await (await import('./commands/dead-letters.ts')).listDeadLetters(contextOf(options), options)
    })
  const erase = program.command('erase').description('remove what is held about a person')
  remote(erase, 'subject', 'by their address, wherever it stands; the money they cost stays, and that they were erased')
    .requiredOption('--email <address>', 'address of the person')
    .option('--cancel', 'cancel runs that stand in the way, and wait for them to end')
    .option('-y, --yes', 'do not ask before')
    .action(async (options: CommonOptions & EraseOptions) => {
      await (await import('./commands/personal-data.ts')).eraseSubject(contextOf(options), options)
    })
  remote(program, 'export', 'write everything of the organization but secrets, one JSON text a line')
    .requiredOption('--out <file>', 'a file that is not there yet')
    .action(async (options: CommonOptions & { out: string }) => {
      await (await import('./commands/personal-data.ts')).exportOrganization(contextOf(options), options)
    })
  command(program, 'delete-organization <slug>', 'remove an organization with everything it has, for good')
    .requiredOption('--confirm <slug>', 'the same slug again')
    .action(async (slug: string, options: CommonOptions & { confirm: string }) => {
      await (await import('./commands/database.ts')).deleteOrganization(contextOf(options), slug, options)
    })
  const restore = program.command('restore').description('after a backup was put back')
  command(restore, 'hold', 'hold every run that has not ended, until somebody releases it')
    .option('--reason <text>', 'kept with the runs', 'an operator says so')
    .action(async (options: CommonOptions & { reason: string }) => {
      await (await import('./commands/database.ts')).holdAfterRestore(contextOf(options), options)
    })
}
