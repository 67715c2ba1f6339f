import { WebSocket } from 'ws';
import { PIECE } from './upstream.ts';

/**
 * The process of the followers: `followers.ts URL COUNT TOKEN`. The first one reads nothing. Each
 * line of its standard input asks for two numbers. One is the messages that the others received so
 * far. The other one is the pieces in those of the last follower: a message may have several.
 */
const [url = '', count = '0', token = ''] = process.argv.slice(2);
const headers = token === '' ? {} : { authorization: `Bearer ${token}` };
let [received, pieces, open] = [0, 0, 0];
for (let index = 0; index < Number(count); index += 1) {
  const socket = new WebSocket(url, { headers, perMessageDeflate: false });
  socket.on('open', () => {
    if (index === 0) socket.pause();
    open += 1;
    if (open === Number(count)) process.stdout.write('open\n');
  });
  const isLast = index === Number(count) - 1;
  socket.on('message', (data) => {
    received += 1;
    if (isLast) pieces += String(data).split(PIECE).length - 1;
  });
  socket.on('error', (error) => {
    throw error;
  });
}
process.stdin.on('data', () => process.stdout.write(`${received} ${pieces}\n`));
