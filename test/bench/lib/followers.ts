import { WebSocket } from 'ws';

/**
 * The process of the followers: `followers.ts URL COUNT TOKEN`. The first one reads nothing. Each
 * line of its standard input asks for the messages that the others received so far.
 */
const [url = '', count = '0', token = ''] = process.argv.slice(2);
const headers = token === '' ? {} : { authorization: `Bearer ${token}` };
let [received, open] = [0, 0];
for (let index = 0; index < Number(count); index += 1) {
  const socket = new WebSocket(url, { headers, perMessageDeflate: false });
  socket.on('open', () => {
    if (index === 0) socket.pause();
    open += 1;
    if (open === Number(count)) process.stdout.write('open\n');
  });
  socket.on('message', () => {
    received += 1;
  });
  socket.on('error', (error) => {
    throw error;
  });
}
process.stdin.on('data', () => process.stdout.write(`${received}\n`));
