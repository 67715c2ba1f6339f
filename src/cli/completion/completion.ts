import { SvcError } from '../../errors.ts';
import type { Context } from '../context.ts';
import { print, printJson } from '../print/output.ts';

const INSTALL: Record<string, string> = {
  bash: 'echo \'eval "$(svc completion bash)"\' >> ~/.bashrc',
  zsh: 'echo \'eval "$(svc completion zsh)"\' >> ~/.zshrc',
  fish: 'svc completion fish > ~/.config/fish/completions/svc.fish',
};

/** Prints the completion script of a shell, generated from the table of commands. */
export async function run({ args, json }: Context): Promise<number> {
  const [shell = ''] = args;
  const script = await make(shell);
  if (json) printJson({ shell, script });
  else print(`# To install: ${INSTALL[shell]}\n${script}`);
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
