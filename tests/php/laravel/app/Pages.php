<?php
namespace App;

use Illuminate\Foundation\Application;
use Illuminate\Http\Request;
use Illuminate\Routing\Controller;
use Illuminate\Support\Facades\App;
use Illuminate\Support\Facades\Auth;
use Illuminate\Support\Facades\Cookie;
use Illuminate\Support\Facades\Request as CurrentRequest;
use Illuminate\Support\Facades\Session;
use Illuminate\Support\Facades\URL;
use Illuminate\Support\Facades\View;
use RuntimeException;

final class Pages extends Controller
{
    public function __construct(private Application $app)
    {
    }

    public function home(Request $request)
    {
        if ($request->has('lang')) {
            App::setLocale($request->query('lang'));
            config(['app.name' => 'Wombats for ' . $request->query('lang')]);
        }
        $animals = array_map(static fn ($n) => ['name' => "Wombat <$n>", 'weight' => $n * 1.25], range(1, 40));
        return view('home', ['animals' => $animals, 'name' => $request->query('name', 'nobody')]);
    }

    public function json(Request $request, int $id)
    {
        $checked = validator($request->json()->all(), ['user' => 'required|integer', 'word' => 'max:3']);
        if ($checked->fails()) {
            return response()->json($checked->errors(), 422);
        }
        return response()->json(['id' => $id, 'query' => $request->query(), 'body' => $request->json()->all(), 'url' => $request->fullUrl(),
            'client' => $request->ip(), 'route' => $request->route()->uri()]);
    }

    public function form()
    {
        return view('form');
    }

    public function send(Request $request)
    {
        $fields = $request->validate(['name' => 'required|max:20', 'visit' => 'integer', 'list' => 'array']);
        $request->session()->put('form', $fields);
        pause();
        return redirect('/form')->with('notice', 'Saved ' . count($fields) . ' fields.');
    }

    public function saved(Request $request)
    {
        return $request->session()->get('form', []);
    }

    public function counter(Request $request)
    {
        $request->session()->increment('count');
        pause();
        return view('counter', ['count' => Session::get('count')]);
    }

    public function login(Request $request)
    {
        Auth::login(Auth::getProvider()->retrieveById($request->query('user')));
        $request->session()->regenerate();
        return redirect('/me');
    }

    public function me()
    {
        pause();
        return ['user' => Auth::id(), 'guest' => Auth::guest()];
    }

    public function logout(Request $request)
    {
        Auth::logout();
        $request->session()->invalidate();
        $request->session()->regenerateToken();
        return redirect('/');
    }

    public function upload(Request $request)
    {
        $file = $request->file('file');
        $told = [$file->getClientOriginalName(), $file->getClientMimeType(), $request->input('user')];
        $moved = $file->move(storage_path('framework'), bin2hex(random_bytes(12)));
        $told = [...$told, $moved->getSize(), hash_file('sha256', $moved->getPathname())];
        unlink($moved->getPathname());
        return $told;
    }

    public function cookie(Request $request)
    {
        Cookie::queue('queued', 'for ' . $request->query('taste'), 10);
        pause();
        return response('cookies: ' . json_encode($request->cookie('taste')), 201)->cookie('taste', $request->query('taste'), 10);
    }

    public function cookies(Request $request)
    {
        return [$request->cookie('taste'), $request->cookie('queued')];
    }

    public function stream()
    {
        return response()->stream(static function (): void {
            for ($part = 0; $part < 20; $part++) {
                echo str_repeat("part $part ", 200), "\n";
                flush();
                pause();
            }
        }, 200, ['Content-Type' => 'text/plain']);
    }

    public function download()
    {
        return response()->download(resource_path('views/home.blade.php'), 'wombats.txt', ['Content-Type' => 'text/plain']);
    }

    public function boom()
    {
        pause();
        throw new RuntimeException('as the test wants it');
    }

    public function error()
    {
        return intdiv(1, 0);
    }

    public function warning()
    {
        return [][1];
    }

    public function teapot()
    {
        abort(418, 'short and stout', ['X-Pot' => 'tea']);
    }

    /** The state that a request finds in request-scoped services. */
    public function services()
    {
        $first = [app('own')->next(), app('scoped')->next()];
        pause();
        return [$first, app('own')->next(), app('scoped')->next()];
    }

    /** The state that it finds in a service of the application. */
    public function requests()
    {
        return app('requests')->next();
    }

    /** The targets of facades and helpers after other requests have run. */
    public function facades(Request $request)
    {
        View::share('shared', $request->query('user'));
        pause();
        return [CurrentRequest::query('user'), request()->query('user'), View::shared('shared'), URL::current(), url('/x'),
            app() === $this->app, App::getLocale()];
    }
}
