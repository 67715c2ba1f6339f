import { spawnSync } from 'node:child_process';
import { SvcError } from '../../../errors.ts';
import { platform } from '../../../home/platform.ts';
import { ProgramFailure } from '../../terminal/foreign-program.ts';

/** Throws usage if there is no editor, or it fails. */
export function openEditor(file: string): void {
  const { VISUAL, EDITOR } = process.env;
  const editor = VISUAL || EDITOR || platform.editor;
  const { program, args, options } = platform.edit(editor, file);
  const ended = spawnSync(program, args, { ...options, stdio: 'inherit' });
  const { status, signal, error } = ended;
  if (status === 0) return;
  const { code = status } = (error ?? {}) as NodeJS.ErrnoException;
  const { message } = new ProgramFailure(editor, { code, signal, message: String(error) });
  throw new SvcError('usage', `The editor failed, and nothing was changed: ${message}.`, {
    hint: 'Choose another with the variable VISUAL or EDITOR.',
    cause: error,
  });
}
