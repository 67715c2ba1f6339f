import { escapeXml } from './launch-agent.ts';
import type { Service } from './service.ts';

/**
 * The definition of a task for its user alone, which needs no administrator. Without these settings
 * a task ends after three days, and on a battery. A task has no environment, so cmd.exe sets it.
 */
export function taskText({ command, env }: Service, user: string): string {
  const line = command.map((word) => `"${word}"`).join(' ');
  const variables = Object.entries(env).map(([name, value]) => `set "${name}=${value}" & `);
  return `<?xml version="1.0" encoding="UTF-16"?>
<Task version="1.2" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <Triggers>
    <LogonTrigger>
      <UserId>${escapeXml(user)}</UserId>
    </LogonTrigger>
  </Triggers>
  <Principals>
    <Principal id="Author">
      <UserId>${escapeXml(user)}</UserId>
      <LogonType>InteractiveToken</LogonType>
      <RunLevel>LeastPrivilege</RunLevel>
    </Principal>
  </Principals>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <RestartOnFailure>
      <Interval>PT1M</Interval>
      <Count>255</Count>
    </RestartOnFailure>
  </Settings>
  <Actions Context="Author">
    <Exec>
      <Command>cmd.exe</Command>
      <Arguments>${escapeXml(`/d /s /c "${variables.join('')}${line}"`)}</Arguments>
    </Exec>
  </Actions>
</Task>
`;
}
