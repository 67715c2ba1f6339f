/** The answer of the user, in small letters. Empty when the input ends, or at Ctrl-C. */
export async function askUser(question: string): Promise<string> {
  const { createInterface } = await import('node:readline');
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  return new Promise<string>((resolve) => {
    terminal.once('close', () => resolve(''));
    terminal.question(question, (answer) => resolve(answer.trim().toLowerCase()));
  }).finally(() => terminal.close());
}
