// The settings that point Claude Code at this warden; what `lm-warden claude` prints, too.

/** Environment variables, in the order in which they are shown. */
export function claudeEnvironment(origin: string, model: string): [string, string][] {
  return [
    ['ANTHROPIC_BASE_URL', origin],
    // Claude Code wants some key, and an API key of the user's own must not be sent here.
    ['ANTHROPIC_AUTH_TOKEN', 'none'],
    ['ANTHROPIC_API_KEY', ''],
    ['ANTHROPIC_MODEL', model],
    ['ANTHROPIC_SMALL_FAST_MODEL', model],
    ['ANTHROPIC_DEFAULT_HAIKU_MODEL', model],
    ['ANTHROPIC_DEFAULT_SONNET_MODEL', model],
    ['ANTHROPIC_DEFAULT_OPUS_MODEL', model],
    // Older versions change the first system block on every request otherwise, and the prefix
    // cache is lost from there on.
    ['CLAUDE_CODE_ATTRIBUTION_HEADER', '0'],
    // Tells main turns from side requests, which take no turn of the conversation.
    ['CLAUDE_CODE_GATEWAY_HINT_HEADERS', '1'],
    ['CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC', '1'],
    ['DISABLE_TELEMETRY', '1'],
  ];
}

export function asShell(variables: [string, string][]): string {
  return variables.map(([name, value]) => `export ${name}=${quoted(value)}`).join('\n');
}

export function asSettings(variables: [string, string][]): string {
  return JSON.stringify({ env: Object.fromEntries(variables) }, null, 2);
}

function quoted(value: string): string {
  return /^[A-Za-z0-9_.:/@%+-]+$/.test(value) ? value : `'${value.replaceAll("'", `'\\''`)}'`;
}
