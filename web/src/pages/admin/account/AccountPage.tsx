/** What the caller has: its rights, its tokens, its sessions, its password. */

import { useMe, useMethods } from "../../../api/queries";
import { Facts } from "../../../ui/Facts";
import { Loaded } from "../../../ui/Loaded";
import { PageHeader } from "../../../ui/PageHeader";
import { Panel } from "../../../ui/Panel";
import { roleWords } from "../../../words";
import { grantWords } from "../users/UsersPage";
import { PasswordPanel } from "./PasswordPanel";
import { SessionPanel } from "./SessionPanel";
import { TokenPanel } from "./TokenPanel";

export function AccountPage() {
  const me = useMe();
  const hasPasswords = useMethods().data?.password !== false;
  return (
    <>
      <PageHeader title="Tokens and sessions" subtitle="What acts in your name." />
      <Loaded query={me}>
        {(view) => (
          <div className="page-parts">
            <TokenPanel user={view.user} />
            <SessionPanel user={view.user} />
            <div className="page-halves">
              <Panel title="You">
                <Facts
                  facts={[
                    ["Name", view.user],
                    ["Role", `${view.role}: ${roleWords(view.role)}`],
                    ["Stores", grantWords(view.grants)],
                  ]}
                />
              </Panel>
              {hasPasswords && <PasswordPanel user={view.user} />}
            </div>
          </div>
        )}
      </Loaded>
    </>
  );
}
