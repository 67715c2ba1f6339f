import { appliedSettings, settingsRecord } from '../../contract/settings.ts';
import { sendJson } from './reply.ts';
import { type Context, type Route, route } from './route.ts';

/**
 * The settings of the daemon. No route writes one: only the commands write the file of the user.
 * Each route needs the scope `admin`, since settings name files and folders of the machine.
 */
export const settingRoutes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v1/settings',
    access: 'token',
    scope: 'admin',
    summary: 'Every setting: its value, where it comes from, and what it means. No secrets.',
    answers: { 200: settingsRecord },
    answer: ({ res, configuration }: Context) => sendJson(res, 200, configuration.settings()),
  }),
  route({
    method: 'POST',
    path: '/v1/settings/apply',
    access: 'token',
    scope: 'admin',
    summary: 'Reads the configuration file again, and applies what may change at once.',
    answers: { 200: appliedSettings },
    answer: ({ res, configuration }: Context) => sendJson(res, 200, configuration.apply()),
  }),
];
