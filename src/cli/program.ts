import { readFileSync } from 'node:fs'
import { Argument, Command, Option } from 'commander'
import type { ApprovalListOptions, ApproveOptions, RejectOptions } from './commands/approvals.ts'
import type { RunOptions } from './commands/run.ts'
import type { ArithmeticOptions } from './commands/vendors.ts'
import type { ConnectionListOptions, ConnectOptions } from './commands/connections.ts'
import type { NewKeyOptions } from './commands/keys.ts'
import type { ProviderJobListOptions } from './commands/provider-jobs.ts'
import type { RunListOptions } from './commands/runs.ts'
import type { StartOptions } from './commands/start.ts'
import type { Lane } from '../runs/lane.ts'
import { contextOf, type CommonOptions } from './context.ts'
import { LOG_LEVELS } from '../server/log-level.ts'
import { EXIT_CODES_HELP } from './exit-codes.ts'
import { addUpkeepCommands } from './upkeep-commands.ts'

/** Every command and option. What a command needs is loaded when it runs, so that `--help` waits for no driver. */
export function buildProgram(): Command {
  const program = new Command('bailiff')
    .description(
      'Governed tool calls for AI agents: an agent proposes, Bailiff decides, executes once and bounds the answer.',
    )
    .version(ownVersion())
    .showHelpAfterError('(bailiff --help lists every command)')
    .addHelpText('after', `\n${EXIT_CODES_HELP}`)
    .exitOverride()
  addServerCommands(program)
  addRunCommands(program)
  addLaneCommands(program)
  addApprovalCommands(program)
  addToolCommands(program)
  addKeyCommands(program)
  addConnectionCommands(program)
  addProviderJobCommands(program)
  addVaultCommands(program)
  addVendorCommands(program)
  addUpkeepCommands(program, { command, remote, listOptions })
  return program
}

function ownVersion(): string {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string
  }
  return version
}

const LANES: readonly Lane[] = ['interactive', 'batch']

const CONFIG = ['--config <file>', 'config file; without it, bailiff.config.ts, .js or .mjs in this folder'] as const

/** A command with the option that all of them take. */
function command(parent: Command, usage: string, description: string): Command {
  return parent.command(usage).description(description).option('--json', 'machine-readable answer on standard output')
}

/** One that talks to a running server. */
function remote(parent: Command, usage: string, description: string): Command {
  return command(parent, usage, description).option(
    '--url <url>',
    'server to talk to, with BAILIFF_API_KEY; without it, the one on the data folder',
  )
}

function addServerCommands(program: Command): void {
  command(program, 'start', 'start the server: runs, approvals and the console')
    .option(...CONFIG)
    .addOption(
      new Option('--log <level>', 'log lines on standard error; without it, BAILIFF_LOG_LEVEL or warn').choices(
        LOG_LEVELS,
      ),
    )
    .action(async (options: CommonOptions & StartOptions) => {
      await (await import('./commands/start.ts')).start(contextOf(options), options)
    })
  command(program, 'migrate', 'bring the database up to date').action(async (options: CommonOptions) => {
    await (await import('./commands/migrate.ts')).migrateDatabase(contextOf(options))
  })
  command(program, 'doctor', 'check everything a start needs, and change nothing')
    .option(...CONFIG)
    .action(async (options: CommonOptions & { config?: string }) => {
      await (await import('./commands/doctor.ts')).doctor(contextOf(options), options)
    })
}

function addRunCommands(program: Command): void {
  remote(program, 'run <definition>', 'start a run and follow it until it ends or waits for a person')
    .requiredOption('--input <file>', 'input of the run: a JSON file, or a CSV file with a header row')
    .option('--as <name>', 'name of the list that the rows of a CSV file become', 'leads')
    .addOption(new Option('--lane <lane>', 'batch for a run that nobody waits for').choices(LANES))
    .option('--no-follow', 'return as soon as the run is queued')
    .action(async (definition: string, options: CommonOptions & RunOptions) => {
      await (await import('./commands/run.ts')).run(contextOf(options), definition, options)
    })
  const runs = program.command('runs').description('look at runs and stop them')
  listOptions(remote(runs, 'list', 'runs, newest first'))
    .option('--status <status>', 'queued, running, parked, completed, partial, failed or cancelled')
    .option('--definition <slug>', 'runs of one definition')
    .action(async (options: CommonOptions & RunListOptions) => {
      await (await import('./commands/runs.ts')).listRuns(contextOf(options), options)
    })
  remote(runs, 'show <id>', 'one run').action(async (id: string, options: CommonOptions) => {
    await (await import('./commands/runs.ts')).showRun(contextOf(options), id)
  })
  remote(runs, 'tree <id>', 'what happened in a run, turn by turn').action(
    async (id: string, options: CommonOptions) => {
      await (await import('./commands/runs.ts')).showTree(contextOf(options), id)
    },
  )
  remote(runs, 'cancel <id>', 'stop a run at its next boundary')
    .option('--reason <text>', 'kept with the run')
    .action(async (id: string, options: CommonOptions & { reason?: string }) => {
      await (await import('./commands/runs.ts')).cancelRun(contextOf(options), id, options)
    })
  remote(runs, 'signal <id> <name>', 'send a signal to a run of a workflow')
    .option('--data <file>', 'what goes with it: a JSON file')
    .action(async (id: string, name: string, options: CommonOptions & { data?: string }) => {
      await (await import('./commands/runs.ts')).signalRun(contextOf(options), { id, name, ...options })
    })
  remote(runs, 'retry <id>', 'start another run in place of a failed one, with its definition and input')
    .option('--effects-may-repeat', 'although the failed run wrote or sent something')
    .action(async (id: string, options: CommonOptions & { effectsMayRepeat?: boolean }) => {
      await (await import('./commands/dead-letters.ts')).retryRun(contextOf(options), id, options)
    })
  remote(runs, 'release [id]', 'let a run go on that is held since the database was restored')
    .option('--all', 'every held run')
    .action(async (id: string | undefined, options: CommonOptions & { all?: boolean }) => {
      await (await import('./commands/runs.ts')).releaseRuns(contextOf(options), id, options)
    })
}

function addLaneCommands(program: Command): void {
  const lanes = program.command('lanes').description('how many runs work at the same time; pause and resume them')
  const lane = new Argument('<lane>', 'interactive or batch').choices(LANES)
  remote(lanes, 'list', 'both lanes, with who works and who waits').action(async (options: CommonOptions) => {
    await (await import('./commands/lanes.ts')).listLanes(contextOf(options))
  })
  remote(lanes, 'pause', 'begin nothing more in a lane; what works leaves at its next boundary')
    .addArgument(lane)
    .action(async (name: string, options: CommonOptions) => {
      await (await import('./commands/lanes.ts')).pauseLane(contextOf(options), name)
    })
  remote(lanes, 'resume', 'let a paused lane go on')
    .addArgument(lane)
    .action(async (name: string, options: CommonOptions) => {
      await (await import('./commands/lanes.ts')).resumeLane(contextOf(options), name)
    })
  remote(lanes, 'limit', 'set how many runs of a lane may be active at the same time')
    .addArgument(lane)
    .argument('<count>', 'at least 1, or the word default')
    .action(async (name: string, count: string, options: CommonOptions) => {
      await (await import('./commands/lanes.ts')).limitLane(contextOf(options), name, count)
    })
}

function addApprovalCommands(program: Command): void {
  const approvals = program.command('approvals').description('answer what waits for a person')
  listOptions(remote(approvals, 'list', 'approvals, oldest first'))
    .addOption(
      new Option('--state <state>', 'which ones')
        .choices(['pending', 'approved', 'rejected', 'expired', 'cancelled', 'stale', 'all'])
        .default('pending'),
    )
    .option('--run <id>', 'of one run')
    .action(async (options: CommonOptions & ApprovalListOptions) => {
      await (await import('./commands/approvals.ts')).listApprovals(contextOf(options), options)
    })
  remote(approvals, 'show <id>', 'one approval with its exact arguments').action(
    async (id: string, options: CommonOptions) => {
      await (await import('./commands/approvals.ts')).showApproval(contextOf(options), id)
    },
  )
  answerOptions(remote(approvals, 'approve <id...>', 'show an approval and allow exactly that call'))
    .addOption(
      new Option('--outcome <outcome>', 'where nobody knows whether a call took effect').choices([
        'arrived',
        'send-again',
      ]),
    )
    .action(async (ids: string[], options: CommonOptions & ApproveOptions) => {
      await (await import('./commands/approvals.ts')).approve(contextOf(options), ids, options)
    })
  answerOptions(remote(approvals, 'reject <id...>', 'show an approval and refuse that call'))
    .option('--stop-run', 'stop the run too')
    .action(async (ids: string[], options: CommonOptions & RejectOptions) => {
      await (await import('./commands/approvals.ts')).reject(contextOf(options), ids, options)
    })
}

function addToolCommands(program: Command): void {
  const tools = program.command('tools').description('look at tools, check them, switch them off')
  remote(tools, 'list', 'tools with their versions and states').action(async (options: CommonOptions) => {
    await (await import('./commands/tools.ts')).listTools(contextOf(options))
  })
  command(tools, 'check', 'check the tools, rules and definitions of a config file, without a server')
    .option(...CONFIG)
    .action(async (options: CommonOptions & { config?: string }) => {
      await (await import('./commands/check.ts')).checkTools(contextOf(options), options)
    })
  remote(tools, 'enable <name>', 'let agents call a tool again').action(
    async (name: string, options: CommonOptions) => {
      await (await import('./commands/tools.ts')).setTool(contextOf(options), name, true)
    },
  )
  remote(tools, 'disable <name>', 'refuse every call of a tool from now on').action(
    async (name: string, options: CommonOptions) => {
      await (await import('./commands/tools.ts')).setTool(contextOf(options), name, false)
    },
  )
}

function addVendorCommands(program: Command): void {
  const vendors = program.command('vendors').description('look at accounts of data vendors')
  command(
    vendors,
    'arithmetic',
    'what a config can ask of each vendor at the same time, against what its account takes',
  )
    .option(...CONFIG)
    .option('--processes <count>', 'servers that share the database', '1')
    .action(async (options: CommonOptions & ArithmeticOptions) => {
      await (await import('./commands/vendors.ts')).arithmetic(contextOf(options), options)
    })
}

function addKeyCommands(program: Command): void {
  const keys = program.command('keys').description('make and revoke API keys')
  remote(keys, 'list', 'keys, without their secrets').action(async (options: CommonOptions) => {
    await (await import('./commands/keys.ts')).listKeys(contextOf(options))
  })
  remote(keys, 'create', 'make a key and show its secret once')
    .addOption(new Option('--kind <kind>', 'what it may do').choices(['run', 'approve', 'admin']).makeOptionMandatory())
    .requiredOption('--name <text>', 'what it is for')
    .action(async (options: CommonOptions & NewKeyOptions) => {
      await (await import('./commands/keys.ts')).createKey(contextOf(options), options)
    })
  remote(keys, 'revoke <id>', 'refuse a key from now on').action(async (id: string, options: CommonOptions) => {
    await (await import('./commands/keys.ts')).revokeKey(contextOf(options), id)
  })
}

const SETTING = [
  '--setting <name=value>',
  'a public setting, such as host=mail.acme.test; repeat it for several',
  (value: string, before: readonly string[]) => [...before, value],
  [] as readonly string[],
] as const

function addConnectionCommands(program: Command): void {
  remote(program, 'connect <provider>', 'connect an account; its secret is asked for, or piped in')
    .option('--label <text>', 'what people and agents call it', 'main')
    .option(...SETTING)
    .action(async (provider: string, options: CommonOptions & ConnectOptions) => {
      await (await import('./commands/connections.ts')).connect(contextOf(options), provider, options)
    })
  const connections = program.command('connections').description('look at connected accounts, renew and remove them')
  remote(connections, 'list', 'connections, without their secrets')
    .option('--provider <name>', 'of one provider')
    .addOption(new Option('--state <state>', 'in one state').choices(['connected', 'needs_reauth', 'revoked']))
    .action(async (options: CommonOptions & ConnectionListOptions) => {
      await (await import('./commands/connections.ts')).listConnections(contextOf(options), options)
    })
  remote(connections, 'reconnect <id>', 'connect an account again: with a new secret, or by signing in')
    .option(...SETTING)
    .action(async (id: string, options: CommonOptions & Pick<ConnectOptions, 'setting'>) => {
      await (await import('./commands/connections.ts')).reconnectConnection(contextOf(options), id, options)
    })
  remote(connections, 'revoke <id>', 'uninstall a connection for good and delete its secrets').action(
    async (id: string, options: CommonOptions) => {
      await (await import('./commands/connections.ts')).revokeConnection(contextOf(options), id)
    },
  )
}

function addProviderJobCommands(program: Command): void {
  const jobs = program.command('provider-jobs').description('look at work that vendors finish later, and at its cost')
  listOptions(remote(jobs, 'list', 'jobs, newest first'))
    .addOption(
      new Option('--state <state>', 'in one state').choices([
        'submitted',
        'running',
        'completed',
        'failed',
        'cancelled',
      ]),
    )
    .option('--provider <name>', 'of one provider')
    .option('--run <id>', 'of one run')
    .action(async (options: CommonOptions & ProviderJobListOptions) => {
      await (await import('./commands/provider-jobs.ts')).listProviderJobs(contextOf(options), options)
    })
  remote(jobs, 'show <id>', 'one job, without its result').action(async (id: string, options: CommonOptions) => {
    await (await import('./commands/provider-jobs.ts')).showProviderJob(contextOf(options), id)
  })
  listOptions(remote(jobs, 'unsettled', 'ended jobs whose cost is not written down')).action(
    async (options: CommonOptions & ProviderJobListOptions) => {
      await (await import('./commands/provider-jobs.ts')).listUnsettled(contextOf(options), options)
    },
  )
  remote(jobs, 'settle <id>', 'write down what an ended job cost').action(
    async (id: string, options: CommonOptions) => {
      await (await import('./commands/provider-jobs.ts')).settleProviderJob(contextOf(options), id)
    },
  )
  remote(jobs, 'drops', 'callbacks that were answered and not used, by reason').action(
    async (options: CommonOptions) => {
      await (await import('./commands/provider-jobs.ts')).showDrops(contextOf(options))
    },
  )
}

function addVaultCommands(program: Command): void {
  const vault = program.command('vault').description('look after the keys that stored secrets are sealed with')
  command(vault, 'status', 'which keys are in use, and how many secrets still need an old one').action(
    async (options: CommonOptions) => {
      await (await import('./commands/vault.ts')).showVault(contextOf(options))
    },
  )
  command(vault, 'rotate', 'seal every stored secret with the first key of BAILIFF_VAULT_KEY').action(
    async (options: CommonOptions) => {
      await (await import('./commands/vault.ts')).rotateVault(contextOf(options))
    },
  )
}

function listOptions(list: Command): Command {
  return list
    .option('--limit <count>', 'entries of one page, at most 200', '50')
    .option('--cursor <id>', 'where the next page starts')
}

function answerOptions(answer: Command): Command {
  return answer
    .option('--note <text>', 'kept with the answer; a rejected agent reads it')
    .option('--hash <hash>', 'refuse unless the arguments still have this hash')
    .option('-y, --yes', 'do not ask before answering')
}
