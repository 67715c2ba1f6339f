// Not imported: see src/home/paths.ts.
const { connect } = process.getBuiltinModule('node:net');

const PATIENCE_MS = 2_000;
const AGAIN_MS = 20;
const REQUEST = `${JSON.stringify({ id: 1, method: 'health' })}\n`;

/**
 * Checks for a daemon after a connection was reset unread. The system still takes connections for a
 * process that is being killed, and resets them later. Only a refused connection proves that the
 * process is gone.
 */
export async function isServed(path: string): Promise<boolean> {
  for (const end = performance.now() + PATIENCE_MS; performance.now() < end; ) {
    const found = await ask(path, end - performance.now());
    if (found !== 'reset') return found === 'served';
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
  return true;
}

/** A process that accepts and does not answer is there, and hangs. */
function ask(path: string, timeout_ms: number): Promise<'served' | 'refused' | 'reset'> {
  const socket = connect(path);
  return new Promise<'served' | 'refused' | 'reset'>((resolve) => {
    socket.setTimeout(Math.max(1, timeout_ms), () => resolve('served'));
    socket.once('connect', () => socket.write(REQUEST));
    socket.once('data', () => resolve('served'));
    socket.once('close', () => resolve('reset'));
    socket.once('error', ({ code }: NodeJS.ErrnoException) => {
      if (code === 'ECONNRESET' || code === 'EPIPE') resolve('reset');
      else resolve(code === 'ECONNREFUSED' || code === 'ENOENT' ? 'refused' : 'served');
    });
  }).finally(() => socket.destroy());
}
