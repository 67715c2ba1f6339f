import { SvcError } from '../../errors.ts';
import type { Context } from '../terminal/context.ts';
import { choiceFlag } from '../terminal/parse/flag-values.ts';
import { print, printJson } from '../terminal/print/output.ts';
import { KINDS } from './words.ts';

const INSTALL: Record<string, string> = {
  bash: 'echo \'eval "$(svc completion bash)"\' >> ~/.bashrc',
  zsh: 'echo \'eval "$(svc completion zsh)"\' >> ~/.zshrc',
  fish: 'svc completion fish > ~/.config/fish/completions/svc.fish',
};

/**
 * Prints the completion script of a shell, generated from the table of commands. With --list, the
 * names that such a script asks for.
 */
export async function run(context: Context): Promise<number> {
  const { args, flags, json } = context;
  const kind = choiceFlag(flags, 'list', KINDS);
  if (kind !== undefined) {
    const { knownNames } = await import('./known.ts');
    const names = await knownNames(kind, context.paths);
    if (json) printJson({ names });
    else if (names.length > 0) print(names.join('\n'));
    return 0;
  }
  const [shell = ''] = args;
  const script = await make(shell);
  if (json) printJson({ shell, script });
  // At the end: zsh finds `#compdef` in the first line only.
  else print(`${script}\n# To install: ${INSTALL[shell]}`);
  return 0;
}

async function make(shell: string): Promise<string> {
  if (shell === 'bash') return (await import('./bash.ts')).bashScript();
  if (shell === 'zsh') return (await import('./zsh.ts')).zshScript();
  if (shell === 'fish') return (await import('./fish.ts')).fishScript();
  throw new SvcError('usage', `There is no completion for ${JSON.stringify(shell)}.`, {
    hint: 'Supported shells: bash, zsh, fish.',
  });
}
