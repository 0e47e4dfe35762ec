import { Dialog } from "../ui/dialog";
import { shortcuts } from "../ui/preferences";

const keys: readonly (readonly [string, string, string])[] = [
  ["Anywhere", "j / k", "Next, previous event of the list"],
  ["Anywhere", "] / [", "Next, previous run"],
  ["Anywhere", "l / h", "Next, previous agent"],
  ["Anywhere", ". / ,", "Next, previous mark of the same row of the timeline"],
  ["Anywhere", "e / Shift+E", "Next, previous error"],
  ["Anywhere", "1 / 2 / 3", "Event content, Agent state, Raw JSON"],
  ["Anywhere", "i", "View this input"],
  ["Anywhere", "d", "Compare an input with the previous one of the agent"],
  ["Anywhere", "g then s, f, n", "System prompt, first, newest message of an input"],
  ["Anywhere", "f", "Selected mark to the middle; again, all of it"],
  ["Anywhere", "/ or Ctrl+F", "Find in the list"],
  ["Find", "Enter / Shift+Enter", "Next, previous event found"],
  ["Anywhere", "Shift+R", "Refresh"],
  ["Anywhere", "Esc", "Back to the conversation"],
  ["Timeline", "← →", "Move in time; with Shift further"],
  ["Timeline", "+ / − / 0 (w / s)", "Zoom in, zoom out, show all"],
  ["Timeline", "Ctrl + wheel", "Zoom around the pointer"],
  ["Timeline", "Shift + wheel, drag", "Move in time"],
  ["Events", "↑ ↓ Page Home End", "Move"],
  ["Events", "Enter", "To the details"],
  ["Separators", "Arrows, Home, End, Enter", "Resize, smallest, largest, fold"],
  ["Panes", "F6 / Shift+F6", "Next, previous pane"],
];

/** HelpDialog lists the keys, and lets single letters be switched off for those whom they hinder. */
export function HelpDialog({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <table class="keys">
        <thead class="visually-hidden">
          <tr>
            <th scope="col">Where</th>
            <th scope="col">Keys</th>
            <th scope="col">What they do</th>
          </tr>
        </thead>
        <tbody>
          {keys.map(([where, key, action]) => (
            <tr key={key + where}>
              <td class="muted">{where}</td>
              <td>
                <kbd>{key}</kbd>
              </td>
              <td>{action}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <label class="check">
        <input type="checkbox" checked={shortcuts.value} onChange={(event) => (shortcuts.value = event.currentTarget.checked)} /> Single letters and
        digits are commands
      </label>
    </Dialog>
  );
}
