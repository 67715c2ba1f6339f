import type { Interface } from 'node:readline';

/** The modes that an editor sets at the terminal, beside its raw mode. */
export interface Marks {
  stop(): void;
  goOn(): void;
}

/**
 * Ctrl-Z in an editor stops the job, as it does where no editor reads. Meanwhile the terminal is as
 * usual. The editor of Node stops only its own process, and a shell would still wait for `npx`. It
 * also reads nothing any more once it continues.
 */
export function stopAtCtrlZ(editor: Interface, marks: Marks): void {
  editor.on('SIGTSTP', () => {
    const { stdin } = process;
    marks.stop();
    stdin.setRawMode(false);
    // This process and those that wait for it. Where no shell can continue it, nothing stops.
    process.kill(0, 'SIGTSTP');
    stdin.setRawMode(true);
    marks.goOn();
    // The shell wrote below the line.
    Object.assign(editor, { prevRows: 0 });
    editor.prompt(true);
  });
}
