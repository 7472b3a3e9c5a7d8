//! The server of PostgreSQL that all sections use.

use windlass_sim::postgres::Server;

pub(crate) fn server() -> &'static Server {
    Server::shared().expect("PostgreSQL is installed")
}
