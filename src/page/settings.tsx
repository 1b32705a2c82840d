/** The system prompt of a conversation, and how its answers are drawn. */
import type { Settings } from './conversations.js';
import type { Model } from './server.js';

const FIELDS = [
  { name: 'temperature', text: 'Temperature', min: 0, max: 2, step: 0.05 },
  { name: 'top_p', text: 'Top-p', min: 0.01, max: 1, step: 0.01 },
  { name: 'max_tokens', text: 'Most tokens', min: 1, max: 1_000_000, step: 1 },
] as const;

interface SettingsProps {
  model: Model;
  settings: Settings;
  onChange: (settings: Settings) => void;
}

export function SettingsForm({ model, settings, onChange }: SettingsProps) {
  const own = {
    temperature: model.sampling?.temperature ?? 0,
    top_p: model.sampling?.top_p ?? 1,
    max_tokens: undefined,
  };
  return (
    <details id="settings">
      <summary>System prompt and sampling</summary>
      <label>
        System prompt
        <textarea
          id="system"
          rows={2}
          value={settings.system}
          onChange={({ currentTarget }) => onChange({ ...settings, system: currentTarget.value })}
        />
      </label>
      {FIELDS.map(({ name, text, ...range }) => (
        <label key={name}>
          {text}{' '}
          <input
            {...range}
            id={name}
            type="number"
            value={settings[name] ?? ''}
            placeholder={own[name] === undefined ? 'as many as fit' : `${own[name]}, the model’s`}
            onChange={({ currentTarget }) => {
              const { [name]: _, ...others } = settings;
              const value = currentTarget.valueAsNumber;
              onChange(Number.isNaN(value) ? (others as Settings) : { ...settings, [name]: value });
            }}
          />
        </label>
      ))}
    </details>
  );
}
