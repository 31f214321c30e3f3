<?php
// A small application of Symfony's components: kernel, router, sessions, templates. application() boots the shared parts
// and returns a function that creates a kernel; answer() sends PHP's current request through such a kernel.

use Psr\Container\ContainerInterface;
use Symfony\Component\ErrorHandler\ErrorRenderer\HtmlErrorRenderer;
use Symfony\Component\EventDispatcher\EventDispatcher;
use Symfony\Component\HttpFoundation\BinaryFileResponse;
use Symfony\Component\HttpFoundation\Cookie;
use Symfony\Component\HttpFoundation\JsonResponse;
use Symfony\Component\HttpFoundation\RedirectResponse;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpFoundation\RequestStack;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\HttpFoundation\Session\SessionFactory;
use Symfony\Component\HttpFoundation\Session\Storage\NativeSessionStorageFactory;
use Symfony\Component\HttpFoundation\StreamedResponse;
use Symfony\Component\HttpKernel\Controller\ArgumentResolver;
use Symfony\Component\HttpKernel\Controller\ControllerResolver;
use Symfony\Component\HttpKernel\Controller\ErrorController;
use Symfony\Component\HttpKernel\EventListener\ErrorListener;
use Symfony\Component\HttpKernel\EventListener\ResponseListener;
use Symfony\Component\HttpKernel\EventListener\RouterListener;
use Symfony\Component\HttpKernel\EventListener\SessionListener;
use Symfony\Component\HttpKernel\Exception\HttpException;
use Symfony\Component\HttpKernel\HttpKernel;
use Symfony\Component\Routing\Matcher\UrlMatcher;
use Symfony\Component\Routing\RequestContext;
use Symfony\Component\Routing\Route;
use Symfony\Component\Routing\RouteCollection;
use Twig\Environment;
use Twig\Loader\FilesystemLoader;

// Debian's Symfony may be older than PHP.
error_reporting(E_ALL & ~E_DEPRECATED & ~E_USER_DEPRECATED);
session_save_path(__DIR__ . '/var');
spl_autoload_register(static function (string $class): void {
    $file = getenv('SYMFONY') . '/' . strtr($class, '\\', '/') . '.php';
    if (is_file($file)) {
        require $file;
    }
});
require getenv('SYMFONY') . '/Symfony/Contracts/Deprecation/function.php';

final class Services implements ContainerInterface
{
    public function __construct(private array $services)
    {
    }

    public function get(string $id): mixed
    {
        return $this->services[$id];
    }

    public function has(string $id): bool
    {
        return isset($this->services[$id]);
    }
}

final class Pages
{
    public function __construct(private Environment $twig, private string $folder)
    {
    }

    public function home(Request $request): Response
    {
        $animals = array_map(fn ($n) => ['name' => "Wombat <$n>", 'weight' => $n * 1.25], range(1, 40));
        return $this->page('home.html.twig', ['animals' => $animals, 'name' => $request->query->get('name', 'nobody')]);
    }

    public function json(Request $request, int $id): Response
    {
        return new JsonResponse(['id' => $id, 'method' => $request->getMethod(), 'query' => $request->query->all(),
            'body' => $request->getContent(), 'type' => $request->headers->get('content-type'), 'uri' => $request->getUri(),
            'client' => $request->getClientIp(), 'kind' => $request->getPreferredFormat()]);
    }

    public function counter(Request $request): Response
    {
        $session = $request->getSession();
        $session->set('count', $session->get('count', 0) + 1);
        // Other requests run while this one holds its session.
        pause();
        return $this->page('counter.html.twig', ['count' => $session->get('count'), 'flashes' => $session->getFlashBag()->all()]);
    }

    public function form(Request $request): Response
    {
        $fields = $request->request->all();
        $request->getSession()->set('form', $fields);
        $request->getSession()->getFlashBag()->add('notice', 'saved ' . count($fields) . ' fields');
        return new RedirectResponse('/counter');
    }

    public function saved(Request $request): Response
    {
        return new JsonResponse($request->getSession()->get('form'));
    }

    public function login(Request $request): Response
    {
        $request->getSession()->migrate(true);
        return new Response('a new id');
    }

    public function logout(Request $request): Response
    {
        $request->getSession()->invalidate();
        return new RedirectResponse('/');
    }

    public function upload(Request $request): Response
    {
        $file = $request->files->get('file');
        $moved = $file->move("{$this->folder}/var", bin2hex(random_bytes(12)));
        $told = [$file->getClientOriginalName(), $file->getClientMimeType(), $moved->getSize(), hash_file('sha256', $moved->getPathname())];
        unlink($moved->getPathname());
        return new JsonResponse([$told, $request->request->all()]);
    }

    public function stream(): Response
    {
        return new StreamedResponse(static function (): void {
            for ($part = 0; $part < 20; $part++) {
                echo str_repeat("part $part ", 200), "\n";
                flush();
                pause();
            }
        }, 200, ['Content-Type' => 'text/plain']);
    }

    public function download(): Response
    {
        return new BinaryFileResponse("{$this->folder}/templates/home.html.twig", 200, ['Content-Type' => 'application/x-twig'], true, 'attachment', true);
    }

    public function cookie(Request $request): Response
    {
        $response = new Response('cookies: ' . json_encode($request->cookies->get('taste')), 201);
        $response->headers->setCookie(Cookie::create('taste', $request->query->get('taste', 'none'), 0, '/', null, false, true, false, 'lax'));
        return $response;
    }

    public function boom(): Response
    {
        pause();
        throw new RuntimeException('as the test wants it');
    }

    public function error(): Response
    {
        return intdiv(1, 0);
    }

    public function teapot(): Response
    {
        throw new HttpException(418, 'short and stout', null, ['X-Pot' => 'tea']);
    }

    public function orders(): Response
    {
        $db = new PDO(getenv('ORDERS_DSN'), getenv('ORDERS_USER'), getenv('ORDERS_PASSWORD'));
        $db->exec('CREATE TEMPORARY TABLE orders (id int, name text)');
        $orders = $db->query("SELECT id FROM orders WHERE name = 'a secret'")->fetchAll();
        $curl = curl_init(getenv('STOCK_URL'));
        curl_setopt($curl, CURLOPT_RETURNTRANSFER, true);
        return new JsonResponse(['orders' => count($orders), 'stock' => curl_exec($curl)]);
    }

    private function page(string $template, array $values): Response
    {
        return new Response($this->twig->render($template, $values));
    }
}

/** Lets other requests run if possible. */
function pause(): void
{
    if (getenv('WORKER')) {
        Svc\sleep(0.001);
    }
}

function application(): Closure
{
    $twig = new Environment(new FilesystemLoader(__DIR__ . '/templates'), ['cache' => __DIR__ . '/var/twig', 'strict_variables' => true]);
    $pages = new Pages($twig, __DIR__);
    $routes = new RouteCollection();
    $paths = ['home' => '/', 'json' => '/json/{id}', 'counter' => '/counter', 'form' => '/form', 'saved' => '/saved', 'login' => '/login',
        'logout' => '/logout', 'upload' => '/upload', 'stream' => '/stream', 'download' => '/download', 'cookie' => '/cookie',
        'boom' => '/boom', 'error' => '/error', 'teapot' => '/teapot', 'orders' => '/orders'];
    foreach ($paths as $name => $path) {
        $post = in_array($name, ['form', 'upload'], true) ? ['POST'] : [];
        $routes->add($name, new Route($path, ['_controller' => [$pages, $name]], ['id' => '\d+'], [], '', [], $post));
    }
    if (is_file($addition = __DIR__ . '/addition.php')) {
        (require $addition)($routes);
    }
    return static function () use ($routes): HttpKernel {
        $stack = new RequestStack();
        $events = new EventDispatcher();
        $kernel = new HttpKernel($events, new ControllerResolver(), $stack, new ArgumentResolver());
        $sessions = new Services(['session_factory' => new SessionFactory($stack, new NativeSessionStorageFactory(['name' => 'SYMFONY']))]);
        $events->addSubscriber(new RouterListener(new UrlMatcher($routes, new RequestContext()), $stack, null, null, null, false));
        $events->addSubscriber(new SessionListener($sessions));
        $events->addSubscriber(new ResponseListener('UTF-8'));
        $events->addSubscriber(new ErrorListener(new ErrorController($kernel, null, new HtmlErrorRenderer(false))));
        // A listener from a page of the documentation, registered as the framework's bundle would do it.
        if (is_file($listener = __DIR__ . '/TraceRoute.php')) {
            require_once $listener;
            $events->addListener('kernel.controller', new App\EventListener\TraceRoute());
        }
        return $kernel;
    };
}

function answer(HttpKernel $kernel): void
{
    $request = Request::createFromGlobals();
    $response = $kernel->handle($request);
    $response->send();
    $kernel->terminate($request, $response);
}
